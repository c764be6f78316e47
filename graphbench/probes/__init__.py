"""What graphbench relies on of torch beside its public functions, and whether the installed torch has it.

`relied_on` lists it by feature, `probe` looks at one entry, `features` answers for a whole feature. torch is imported
when a feature is first asked about, never before.
"""
