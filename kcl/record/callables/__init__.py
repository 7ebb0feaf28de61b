"""The direct key: what decides a recipe's outcome, found without running it; `reach` is the way in."""
