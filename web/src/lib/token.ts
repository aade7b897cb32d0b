// The user's token, for servers that require one. It stays in this page's memory: not in storage, where other scripts of
// the origin could read it, nor in a URL or cookie.

let token: string | null = null;

/** Keep a token until the page is closed; a blank one clears it. */
export function keepToken(text: string): void {
  token = text.trim() || null;
}

export const hasToken = (): boolean => token !== null;

/** Return the authorization header of a request. */
export const credentials = (): Record<string, string> => (token === null ? {} : { Authorization: `Bearer ${token}` });
