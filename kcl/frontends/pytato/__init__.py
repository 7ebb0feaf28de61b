"""Graphs of pytato: the calls that make the unit of a graph are recorded, as those of a program into loopy are."""
