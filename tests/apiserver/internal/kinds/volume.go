package kinds

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func preparePersistentVolumeClaim(object runtime.Object) {
	object.(*corev1.PersistentVolumeClaim).Status.Phase = corev1.ClaimPending
}

func preparePersistentVolume(object runtime.Object) {
	object.(*corev1.PersistentVolume).Status.Phase = corev1.VolumePending
}
