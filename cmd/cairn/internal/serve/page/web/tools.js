// The client tools that this page knows how to run. Any other can be answered by hand.

export const known = {
  get_location: (input) => new Promise((done, fail) => {
    navigator.geolocation.getCurrentPosition(
      (at) => done({ latitude: at.coords.latitude, longitude: at.coords.longitude, accuracy_m: at.coords.accuracy }),
      (err) => fail(new Error(err.message)),
      { enableHighAccuracy: !!(input && input.precise), timeout: 10000 });
  }),
  get_time: async () => ({ time: new Date().toString(), zone: Intl.DateTimeFormat().resolvedOptions().timeZone }),
};
