// The token of whoever sits here, for a server that lets nobody in without one. It is kept in this page's memory alone:
// not in storage, where other pages' scripts could find it, nor in an address or a cookie.

let token: string | null = null;

/** Keeps a token until the page is left; blank forgets it. */
export function keepToken(text: string): void {
  token = text.trim() || null;
}

export const hasToken = (): boolean => token !== null;

/** What a request carries. */
export const credentials = (): Record<string, string> => (token === null ? {} : { Authorization: `Bearer ${token}` });
