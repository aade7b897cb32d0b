"""Base pairs with their masses, and pairs with sampling."""
