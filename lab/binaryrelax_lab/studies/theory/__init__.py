"""Section 4 of the paper, measured: a file for each question, and the mathematics they share."""
