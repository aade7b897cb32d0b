"""The inversion integral: tilted laws, their characteristic functions, and the sum with its proven error."""
