"""The methods: each bounds the answer about a prepared release, or says None where it does not apply."""
