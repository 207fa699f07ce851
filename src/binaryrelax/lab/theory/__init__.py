"""Section 4 of the paper as measured quantities: problems, iterations, statements, figures."""
