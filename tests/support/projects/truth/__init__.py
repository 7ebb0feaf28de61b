"""A project of a user in which every recipe depends on one thing of its own; tests copy it and change that thing."""
