// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"io"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// ConfigKeys prints where the values of a configuration come from.
func ConfigKeys(w io.Writer, format Format, style Style, now time.Time, keys []*fleetv1.ConfigExplanation) error {
	rows := newGrid(style, "KEY", "LAYER", "REFERENCE", "SECRET", "STATE", "VERSION", "READ", "SHADOWS", "SAME AS", "PROBLEM")
	return items(w, format, rows, keys, func(k *fleetv1.ConfigExplanation) []cell {
		isSecret := ""
		if k.GetSecret() {
			isSecret = "yes"
		}
		state := cell{strings.ToLower(document.EnumName(k.GetState())), green}
		switch k.GetState() {
		case fleetv1.ConfigState_CONFIG_STATE_STALE:
			state.color = yellow
		case fleetv1.ConfigState_CONFIG_STATE_MISSING:
			state.color = red
		case fleetv1.ConfigState_CONFIG_STATE_UNSPECIFIED, fleetv1.ConfigState_CONFIG_STATE_CURRENT:
		}
		return []cell{
			plain(k.GetKey()), plain(layerText(k)), plain(cmp.Or(k.GetResolvedReference(), k.GetReference())), plain(isSecret), state, plain(k.GetVersion()), ago(k.GetReadTime(), now),
			list(shadowsOf(k)), list(k.GetSameAs()), problem(k.GetProblem()),
		}
	})
}

// layerNamer is a message that names a layer: an explanation, or what it shadows.
type layerNamer interface {
	GetLayer() string
	GetSet() string
	GetOverride() string
}

// layerText names a layer: a set by its name and why the service has it.
func layerText(of layerNamer) string {
	text := of.GetLayer()
	if of.GetSet() == "" && of.GetOverride() != "" {
		return text + " " + of.GetOverride()
	}
	if of.GetSet() != "" {
		text += " " + of.GetSet()
	}
	if of.GetOverride() != "" {
		text += " of override " + of.GetOverride()
	}
	return text
}

func shadowsOf(k *fleetv1.ConfigExplanation) []string {
	var names []string
	for _, shadow := range k.GetShadows() {
		names = append(names, layerText(shadow))
	}
	return names
}
