"""Instruments that time labelled work, and the loops that use them."""
