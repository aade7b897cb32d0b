/// <reference types="vite/client" />

/** Whether this is the build of the custom elements, which leaves out what needs the server. */
declare const ELEMENT: boolean;
