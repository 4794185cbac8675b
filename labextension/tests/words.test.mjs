/**
 * Everything that a person reads is translated: each sentence of the source stands in each catalogue, with the same
 * places for values.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const LOCALES = join(HERE, '..', '..', 'jupyter_gpupool', 'locale');
const CALL = /trans\.(__|_n)\(\s*'((?:[^'\\]|\\.)*)'(?:\s*,\s*'((?:[^'\\]|\\.)*)')?/g;

function* sources(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      yield* sources(path);
    } else if (/\.tsx?$/.test(entry.name)) {
      yield readFileSync(path, 'utf8');
    }
  }
}

const said = new Map();
for (const text of sources(join(HERE, '..', 'src'))) {
  for (const [, kind, first, second] of text.matchAll(CALL)) {
    said.set(first.replace(/\\(.)/g, '$1'), kind === '_n' ? second : '');
  }
}
const places = text => [...new Set(text.match(/%\d/g) ?? [])].sort().join(' ');

for (const locale of readdirSync(LOCALES)) {
  const path = join(LOCALES, locale, 'LC_MESSAGES', 'jupyter_gpupool.json');
  const { '': header, ...catalogue } = JSON.parse(readFileSync(path, 'utf8'));

  test(`${locale} has every sentence of the source, and no other`, () => {
    assert.ok(said.size > 200);
    assert.deepEqual(Object.keys(catalogue).sort(), [...said.keys()].sort());
    assert.equal(header.language, locale.replace('_', '-'), 'JupyterLab looks for it by this name');
    assert.equal(header.domain, 'jupyter_gpupool');
    // by this name, too: it starts no plugin that asks for a catalogue without it
    assert.match(header.plural_forms, /nplurals=\d; plural=/);
  });

  test(`${locale} has as many forms of each sentence as JupyterLab asks for`, () => {
    for (const [key, forms] of Object.entries(catalogue)) {
      // it takes a plural for missing that has one form only, in a language that has no other, too
      assert.equal(forms.length, said.get(key) ? 2 : 1, key);
    }
  });

  test(`${locale} puts the same values into each sentence`, () => {
    for (const [key, forms] of Object.entries(catalogue)) {
      for (const form of forms) {
        assert.equal(places(form), places(key + said.get(key)), key);
        assert.notEqual(form, '');
      }
    }
  });
}
