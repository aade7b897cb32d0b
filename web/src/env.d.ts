/// <reference types="vite/client" />

/** Whether this is the build of the custom elements, which leaves out what needs the server. */
declare const ELEMENT: boolean;

/** Two parts of the catalogue of messages: see messages.plugin.ts. */
declare module "messages:first" {
  const messages: Readonly<Record<string, string>>;
  export default messages;
}
declare module "messages:others" {
  const messages: Readonly<Record<string, string>>;
  export default messages;
}
