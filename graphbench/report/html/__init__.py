"""The HTML page: one file that needs nothing else. Imports jinja2 and plotly, extra `html`, only to render."""
