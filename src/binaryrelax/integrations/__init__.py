"""BinaryRelax inside trainers of others, one file for each; importing one needs that trainer."""
