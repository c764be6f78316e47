"""The only package that reads `torch._inductor` and `torch._functorch`. It returns plain records and callables."""
