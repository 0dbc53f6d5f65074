// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

/**
 * Whether this is a run of `make siege`, which walks all of what `make test` walks a part of, and what takes minutes and
 * few changes touch.
 */
export const isSiege = Boolean(process.env.LEAT_SIEGE);
