// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { number } from "./en.ts";

// The words about who changed a service.

export const changesText = {
  title: "Who changed it",
  noSubject: "No message",
  nobody: "No name",
  none: "No commit since the one before touches the folder of this service.",
  unknown: (message: string) => `Who changed it is not known: ${message}`,
  more: (n: number) => `and ${number(n)} more. leat history --commits lists them.`,
  many: "and more, which the Git host has.",
};
