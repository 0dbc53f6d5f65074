// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

// ParsePage is parsePage.
var ParsePage = parsePage
