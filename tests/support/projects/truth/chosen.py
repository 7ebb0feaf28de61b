"""Values that are found by a computed name."""

NUMBER_ONE = 5
IMPORTED = 6
LISTED = 7
