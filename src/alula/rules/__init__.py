"""The rules: one file a family, one function a rule, its docstring is its page."""
