"""What a recipe asks of loopy, and the content of the units that loopy really made."""
