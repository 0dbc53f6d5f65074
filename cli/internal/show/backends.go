// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"io"
	"strconv"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/document"
)

// backendCells shows where a back end is, who may refer to it, and how its reads go.
func backendCells(b *fleetv1.ConfigBackend, now time.Time) []cell {
	spec, status := b.GetSpec(), b.GetStatus()
	kind, place := "environment", ""
	switch {
	case spec.GetVault() != nil:
		kind, place = "vault", spec.GetVault().GetUrl()+" "+cmp.Or(spec.GetVault().GetMount(), "secret")
	case spec.GetFiles() != nil:
		kind, place = "files", spec.GetFiles().GetRoot()
	case spec.GetKubernetes() != nil:
		kind, place = "kubernetes", cmp.Or(spec.GetKubernetes().GetUrl(), "hub")
	case spec.GetHttp() != nil:
		kind, place = "http", spec.GetHttp().GetUrl()
	case spec.GetAws() != nil:
		kind, place = "aws", spec.GetAws().GetRegion()
	case spec.GetGcp() != nil:
		kind, place = "gcp", spec.GetGcp().GetProject()
	case spec.GetAzure() != nil:
		kind, place = "azure", spec.GetAzure().GetUrl()
	}
	return []cell{
		plain(b.GetMetadata().GetName()), plain(kind), plain(place), list(spec.GetProjects()), list(spec.GetAllowedPaths()),
		plain(strconv.Itoa(int(status.GetEntries()))), plain(strconv.Itoa(int(status.GetFailing()))), ago(status.GetReadTime(), now), problem(status.GetProblem()),
	}
}

// ConfigKeys prints where the values of a configuration come from.
func ConfigKeys(w io.Writer, format Format, style Style, now time.Time, keys []*fleetv1.ConfigExplanation) error {
	rows := newRows(style, "KEY", "LAYER", "REFERENCE", "SECRET", "STATE", "VERSION", "READ", "SHADOWS", "SAME AS", "PROBLEM")
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

// layerNamer is what names a layer: an explanation, or what it shadows.
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

// configSetCells shows how much a set holds.
func configSetCells(s *fleetv1.ConfigSet) []cell {
	config := s.GetSpec().GetConfig()
	return []cell{
		plain(s.GetMetadata().GetName()), plain(strconv.Itoa(len(config.GetValues()))), plain(strconv.Itoa(len(config.GetSecrets()))),
		plain(strconv.Itoa(len(config.GetReferences()))), plain(oneLine(s.GetSpec().GetDescription())),
	}
}
