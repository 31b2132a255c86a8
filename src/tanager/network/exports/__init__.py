"""Export networks to other programs, one module per format."""
