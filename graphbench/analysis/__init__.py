"""Pure arithmetic on saved records. No torch."""
