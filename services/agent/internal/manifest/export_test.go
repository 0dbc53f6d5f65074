// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import "github.com/leatdev/leat/render"

// OpenFiles looks for the file with each of the MACs, without any key, as for the objects of one tree. It
// returns the last error.
func OpenFiles(files *render.Files, macs ...string) (err error) {
	keys := new(keyring)
	for _, mac := range macs {
		_, err = keys.openFile(files, mac)
	}
	return err
}
