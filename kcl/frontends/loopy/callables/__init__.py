"""Values in keys: their exact texts, the key parts of their code, and which values cannot change after a call."""
