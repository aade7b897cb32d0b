import { expect, test } from "vitest";
import { certificateOf, kindOf } from "../src/pages/Verify";

test("files are told apart by how they begin", () => {
  expect(kindOf("epsilog-bundle/v0\n{}\n")).toBe("bundle");
  expect(kindOf("example.org/claims+0a1b2c3d+AbC=\n")).toBe("key");
  expect(kindOf('{"payload":"e30=","payloadType":"application/vnd.in-toto+json"}\n')).toBe("signature");
  expect(kindOf('{"kind":"report","v":0}')).toBe("report");
  expect(kindOf('{\n  "record": {\n    "v": 0')).toBe("record");
  expect(kindOf(`{"sha256": "${"0".repeat(64)}", "record": {}}`)).toBe("record");
  expect(kindOf('{"format":"dp-certificate/1","claim":{}}\n')).toBe("certificate");
  expect(kindOf('\n{ "format": "dp-certificate/1" }')).toBe("certificate"); // which its checker refuses
  expect(kindOf("<!doctype html>")).toBe("report");
  expect(kindOf("acme/ledger\n2\nabc=\n\n— example.org/claims AbC=\n")).toBe("checkpoint");
  expect(kindOf("> As of Monday: -----BEGIN")).toBe("checkpoint");
});

test("a report's own certificate is found", () => {
  expect(certificateOf('{"evidence":{"certificate":"{}\\n"}}')).toBe("{}");
  expect(certificateOf('<!doctype html><pre id="document">{&#34;evidence&#34;:{&#34;certificate&#34;:&#34;a &amp;lt; b\\n&#34;}}</pre>')).toBe("a &lt; b");
  for (const none of ['{"evidence":{}}', "{}", "null", "[", '{"evidence":{"certificate":null}}', '{"evidence":{"certificate":5}}']) expect(certificateOf(none)).toBe(null);
});
