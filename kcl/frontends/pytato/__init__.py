"""The front end of pytato: records the call that makes a loopy unit from a graph of arrays."""
