"""Fast twins of the library's maths in Triton; each has a reference, and a test between them."""
