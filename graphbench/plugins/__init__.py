"""graphbench inside other programs: pytest and IPython. Each is imported by the program that it is for, and alone."""
