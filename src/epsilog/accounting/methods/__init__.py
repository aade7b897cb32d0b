"""The methods: each bounds the answer about a composition, or says None where it does not apply."""
