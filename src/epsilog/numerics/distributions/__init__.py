"""Laws of the privacy loss: base laws with their masses, and pairs that say how sampling bends them."""
