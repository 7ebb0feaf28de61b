"""How values are shown to people: HTML whose texts are escaped, and texts that fit where they are printed."""
