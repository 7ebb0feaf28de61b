"""The direct key: the inputs that decide a recipe's outcome, found without running it; `reach` is the way in."""
