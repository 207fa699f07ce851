"""What things cost: a file for each bench of the command, and what they share."""
