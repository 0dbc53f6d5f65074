// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

import "time"

// AccessToken is a short-lived token that the hub's tunnel accepts.
type AccessToken struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

func (t AccessToken) lasts(reserve time.Duration) bool {
	return t.Token != "" && time.Now().Add(reserve).Before(t.Expires)
}
