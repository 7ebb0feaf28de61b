"""The direct key: what decides a recipe's outcome, found without running it. `kcl.direct.reach` is the way in."""
