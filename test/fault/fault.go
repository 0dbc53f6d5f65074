// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fault runs the built deployables as an operator would, and breaks them: it kills, freezes
// and cuts, and checks the promises of ARCHITECTURE.md. The short form is part of `make siege`, the
// long one is `make fault`.
package fault
