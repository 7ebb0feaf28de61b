"""Verification: compare stored entries with the present output of the recipe, and with the results of their source."""
