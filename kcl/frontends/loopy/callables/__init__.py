"""Values as they count: their texts, what their code counts by, and which of them last."""
