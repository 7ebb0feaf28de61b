"""Verification: is what is stored what the recipe generates now, and what its source computes?"""
