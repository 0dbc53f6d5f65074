// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

/** The label of clusters in which a deletion needs more than one press, whatever its value is. */
const protectedLabel = "leat.dev/protected";

/** Reports whether the labels of a cluster protect it. */
export const hasProtection = (labels: Readonly<Record<string, string>>): boolean => protectedLabel in labels;
