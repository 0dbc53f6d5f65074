// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release

import "github.com/leatdev/leat/internal/runtime/localkube"

// pinnedVersion is the newest release of the minor version that tools/kube builds of which all
// archives below have a published checksum.
const pinnedVersion = "1.36.2"

// Pinned returns the archives with the files of a control plane for a platform, the fastest first.
// Nothing is pinned for files that are not listed here: kwok publishes no checksums in its tree,
// and Kubernetes has no servers for macOS except envtest's.
//
// Upstream publishes the checksums: of envtest in envtest-releases.yaml of
// sigs.k8s.io/controller-tools v0.23.0, of Kubernetes in CHANGELOG/CHANGELOG-1.36.md of
// k8s.io/kubernetes v1.36.3. The Go checksum database vouches for both modules.
func Pinned(os, arch string) []Archive {
	var archives []Archive
	if sum := envtestSums()[os+"/"+arch]; sum != "" {
		archives = append(archives, Archive{
			URL: "https://github.com/kubernetes-sigs/controller-tools/releases/download/envtest-v" + pinnedVersion +
				"/envtest-v" + pinnedVersion + "-" + os + "-" + arch + ".tar.gz",
			SHA512: sum, MaxSize: 256 << 20, Version: pinnedVersion,
			Files: []string{localkube.EtcdFile, localkube.APIServerFile, localkube.KubectlFile},
		})
	}
	if sum := serverSums()[os+"/"+arch]; sum != "" {
		archives = append(archives, Archive{
			URL:    "https://dl.k8s.io/v" + pinnedVersion + "/kubernetes-server-" + os + "-" + arch + ".tar.gz",
			SHA512: sum, MaxSize: 1 << 30, Version: pinnedVersion,
			Files: []string{localkube.ControllerManagerFile, localkube.SchedulerFile},
		})
	}
	return archives
}

// envtestSums are the checksums of the archives that have etcd 3.6.8, kube-apiserver and kubectl,
// by platform.
func envtestSums() map[string]string {
	return map[string]string{
		"linux/amd64": "ea743186c8a799f5cf8faf16969f86189d003cb7d130e0ac4b58789f1e5748dc" +
			"f30ebe91c837a10d5ac415383da3e10b9e64d65785c938c23e739781cfb76f08",
		"linux/arm64": "2d72ee985a8e262a3c57dc9f7f0fd891f6a8c7bf7ebaa2db6dc6d8eac8ae2818" +
			"1afe51c1f368b67756cdb40b10de9b205609e1726e5f27f7c6d824dd9c6649ac",
		"darwin/amd64": "b4fe9f973cd1992e3880f8b230ed32c0c243b83371591e3e3315f4404df2cdbe" +
			"f8ee94eeb9bb245b7e5feb987d5c4a76c43e0877654ab73f00d7bbc2b9984514",
		"darwin/arm64": "9278f9e5af556b2f1f2d139769c1f0d717c7b4426917fdebdba898bcb725a916" +
			"e4910d6160886194ff9be9589ea7c5c32c2b8ae0754703874b7c8ba8ddfc41ce",
	}
}

// serverSums are the checksums of the archives of Kubernetes' servers, by platform.
func serverSums() map[string]string {
	return map[string]string{
		"linux/amd64": "0c617cb74f6a8ddc142afd453b3ece4b39268d78febdbe9df91faf3a01031d36" +
			"4e9347bf8dfdc336e9ed0fe64ad82ce0209ef9fc0340e7d2f784d37bfa7e0d18",
		"linux/arm64": "7226d91204980892f593307f06acefd5579337ec5758c8615a0e46541a990083" +
			"c6be9809b01fb9e06da7e9b6d7208a673fd5129b7145436c3fe6e726d1fa469d",
	}
}
