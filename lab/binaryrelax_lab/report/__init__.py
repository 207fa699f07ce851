"""Tables, pages and pictures, all computed from the results of runs."""
