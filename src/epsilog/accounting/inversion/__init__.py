"""The inversion integral: tilted PLDs, their characteristic functions, and the sum with its proven error."""
