// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { lazyRouteComponent as load } from "@tanstack/react-router";
import { orGone } from "../parts/gone.ts";

/**
 * Returns a page that is loaded when it is first shown. The router's own function loads the whole document again when
 * that fails; here the page says so, and the person decides.
 */
export const lazyRouteComponent: typeof load = (importer, exportName) => load(() => orGone(importer()), exportName);
