// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { foldGutter, foldKeymap, HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import styles from "./editor.module.css";

const look = EditorView.theme({
  "&": { backgroundColor: "var(--paper)", color: "var(--ink)", fontSize: "var(--text-2)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", maxBlockSize: "70vh", minBlockSize: "12rem" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-gutters": {
    backgroundColor: "var(--paper)",
    color: "var(--ink-2)",
    borderInlineEnd: "1px solid var(--line)",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-foldPlaceholder": {
    border: "1px solid var(--line)",
    backgroundColor: "var(--idle-wash)",
    color: "var(--ink-2)",
  },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--ok)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--warn)" },
  { tag: [tags.comment, tags.meta], color: "var(--ink-2)" },
]);

/** Directions of writing and characters without a width deceive, so they are shown as signs. */
const deceiving = /[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Returns the nonce with which the policy of the page allows a sheet of style. */
const nonceOf = () => document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";

/**
 * Editor shows a text of YAML, and edits it if it may. The value is what it begins with; another one replaces the text.
 * Escape and then Tab leave it, because Tab indents.
 */
export function Editor({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string;
  /** Without it, the text can be read alone. */
  onChange?: (value: string) => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const report = useRef(onChange);
  report.current = onChange;
  const canEdit = onChange !== undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the next effect replaces the text
  useEffect(() => {
    if (!host.current) return;
    const editor = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: value,
        extensions: [
          EditorView.cspNonce.of(nonceOf()),
          EditorView.contentAttributes.of({ "aria-label": label, "aria-readonly": String(!canEdit), tabindex: "0" }),
          EditorState.readOnly.of(!canEdit),
          lineNumbers(),
          foldGutter(),
          highlightSpecialChars({ addSpecialChars: deceiving }),
          yaml(),
          indentUnit.of("  "),
          syntaxHighlighting(colours),
          look,
          ...(canEdit ? [history(), highlightActiveLine(), keymap.of([...historyKeymap, indentWithTab])] : []),
          keymap.of([...defaultKeymap, ...foldKeymap]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) report.current?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, [label, canEdit]);
  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === value || canEdit) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value, canEdit]);
  return <div ref={host} className={styles.editor} />;
}
