// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createContext } from "react";

/** IsCurrent is whether a cell is in the row that is in the order of tabs. Only the controls of that row are, too. */
export const IsCurrent = createContext(false);
